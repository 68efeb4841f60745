"""The algorithm, sans-IO: no Ray, no torch, no asyncio, no threads, no clock."""
