"""The mail becomes a row on Duly; `DULY_TOOL` says what the outside can do besides writing."""

from __future__ import annotations

import asyncio
import math
import os

import duly
from bench.crash_window import effect
from duly.host import Host

WAIT_S = 60.0
LAG_S = 0.2
NAME = "mail-to-row"
SOURCE = """
export default Keep.workflow({
  name: "mail-to-row",
  topics: { "mail.received": { ingress: true } },
  consumers: {
    write: Keep.consumer({
      subscribe: ["mail.received"],
      prepare: async (ctx) => {
        const [mail] = await ctx.peek("mail.received", { limit: 1 });
        if (!mail) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "mail.received", ids: [mail.messageId] }],
          data: { id: mail.messageId },
          ui: { title: `Write a row for ${mail.title}` },
        };
      },
      mutate: async (ctx, prepared) => {
        await ctx.book.$TOOL({ row: prepared.data.id });
      },
    }),
  },
});
"""


class Book(duly.Connector):
    name = "book"

    @duly.mutation(lag_s=LAG_S)
    async def asked(self, call: duly.Call, row: str) -> None:
        effect.write(call.key)

    @asked.reconcile
    async def asked_happened(self, call: duly.Call) -> duly.Applied | duly.NotApplied:
        return duly.Applied() if call.key in effect.read_keys() else duly.NotApplied()

    @duly.mutation(lag_s=LAG_S)
    async def silent(self, call: duly.Call, row: str) -> None:
        effect.write(call.key)

    @duly.mutation(lag_s=LAG_S, idempotent=True, key_lifetime_s=math.inf)
    async def keyed(self, call: duly.Call, row: str) -> None:
        effect.write(call.key)


async def main() -> None:
    url = f"sqlite:///{effect.FOLDER / 'duly.db'}"
    async with Host(url, connectors=[Book()]) as host:
        if effect.PLACE:
            text = SOURCE.replace("$TOOL", os.environ["DULY_TOOL"])
            await host.deploy(duly.Source("javascript", text), grant=True)
            title = f"Mail {effect.MAIL}"
            await host.publish(NAME, "mail.received", message_id=effect.MAIL, title=title)
        async with host.running(), asyncio.timeout(WAIT_S):
            while True:
                (event,) = await host.events(NAME)
                mutations = await host.mutations(NAME)
                asks = [each for each in mutations if each.status == "indeterminate"]
                if event.status == "consumed" or asks:
                    break
                await asyncio.sleep(0.05)
        status = mutations[0].status
        effect.say(f"{status}, and asks a person" if asks else f"mutation {status}")


asyncio.run(main())
