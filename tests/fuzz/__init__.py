"""Damaged input of every kind that abw reads: success or one clean error, in bounded time and memory.

`python -m tests.fuzz --cases 100000` is the long run; `test_fuzz.py` a short one. A module in `targets/`
registers a target for each format.
"""
