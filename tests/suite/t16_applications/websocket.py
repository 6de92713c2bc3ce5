"""A WebSocket server that turns every message round."""

import asyncio
import sys

import websockets


async def turn_round(connection):
    async for message in connection:
        await connection.send(message[::-1])


async def main():
    async with websockets.serve(turn_round, "127.0.0.1", int(sys.argv[1]), max_size=None):
        await asyncio.Future()


asyncio.run(main())
