"""The pure core: what a stream says and means. Knows no Django, asyncio, clock, logging or socket."""
