"""Run the three flows in a terminal: `python examples/extensions/play.py`, for about a minute."""

import asyncio
import sys
from pathlib import Path

import duly

FLOWS = ("task: summarize the report", "remind me: drink water", "check in")
LONGEST_S = 65


async def play(url="sqlite:///extensions.db", seconds=LONGEST_S):
    folder = Path(__file__).parent
    channels = [duly.TerminalChannel()]
    async with duly.Host(url, extensions=folder, channels=channels) as host, host.running():
        for text in FLOWS:
            message = {"text": text, "channel_id": "terminal"}
            await host.bus.emit("user.message", message, source="cli_channel")
        await asyncio.sleep(seconds)


if __name__ == "__main__":
    asyncio.run(play(*sys.argv[1:2]))
