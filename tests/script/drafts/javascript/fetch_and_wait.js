// finds lacking 5
// finds lacking 14
// finds lacking 16

import dayjs from "dayjs";

export default Keep.workflow({
  name: "weather",
  topics: ["weather"],
  producers: {
    poll: {
      schedule: { interval: "1h" },
      handler: async (ctx) => {
        const response = await fetch("https://api.example.com/weather");
        const weather = await response.json();
        await new Promise((resolve) => setTimeout(resolve, 1000));
        await ctx.publish("weather", {
          messageId: dayjs().format("YYYY-MM-DD-HH"),
          title: `Weather: ${weather.summary}`,
          payload: weather,
        });
      },
    },
  },
});
