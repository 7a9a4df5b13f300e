#!/usr/bin/env python3
"""Passes connections on to ADDRESS:PORT; a first message of TLS without ALPN gets one that asks for h2. Prints its own port.

    scan_alpn.py ADDRESS:PORT FILE-FOR-THE-PORT

Scanners that write their own first messages know no ALPN, and the agents' port refuses all that has none. What they look at, the version
and the suite that is chosen, is in the answer to that message; a handshake cannot be finished with a message that was changed.
"""
import asyncio, struct, sys

ALPN = b"\x00\x10\x00\x05\x00\x03\x02h2"


def with_alpn(record):
    """The same record, with ALPN in it if it is a whole ClientHello without; else as it is."""
    try:
        kind, version, length = struct.unpack("!BHH", record[:5])
        body = record[5:]
        if kind != 22 or length != len(body) or body[0] != 1 or int.from_bytes(body[1:4], "big") != length - 4:
            return record
        at = 4 + 2 + 32
        at += 1 + body[at]
        at += 2 + int.from_bytes(body[at:at + 2], "big")
        at += 1 + body[at]
        extensions = body[at + 2:]
        rest = extensions
        while rest:
            name, size = struct.unpack("!HH", rest[:4])
            if name == 16:
                return record
            rest = rest[4 + size:]
        extensions = ALPN + extensions
        hello = body[4:at] + struct.pack("!H", len(extensions)) + extensions
        hello = b"\x01" + len(hello).to_bytes(3, "big") + hello
        return struct.pack("!BHH", kind, version, len(hello)) + hello
    except (struct.error, IndexError):
        return record


async def pump(reader, writer):
    try:
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


async def serve(reader, writer, host, port):
    upstream = None
    try:
        first = await asyncio.wait_for(reader.read(5), 30)
        if len(first) == 5 and first[0] == 22:
            first += await asyncio.wait_for(reader.readexactly(int.from_bytes(first[3:], "big")), 30)
        from_hub, upstream = await asyncio.open_connection(host, port)
        upstream.write(with_alpn(first))
        await asyncio.gather(pump(reader, upstream), pump(from_hub, writer))
    except (OSError, EOFError, asyncio.TimeoutError):
        pass
    finally:
        writer.close()
        if upstream:
            upstream.close()


async def main(target, file):
    host, port = target.rsplit(":", 1)
    server = await asyncio.start_server(lambda r, w: serve(r, w, host, int(port)), "127.0.0.1", 0)
    with open(file, "w") as out:
        out.write(f"{server.sockets[0].getsockname()[1]}\n")
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
