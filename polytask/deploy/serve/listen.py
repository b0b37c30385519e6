"""The address that a server listens on, taken before its models load: a taken port is told at once."""

import socket

from polytask.errors import UserError


def listen_on(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 stands for any that is free."""
    try:
        # The protocol is named because asyncio switches Nagle's delay off (40 ms a request) only where it is.
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, UnicodeError) as error:
        raise UserError(f"{host}:{port} cannot be listened on ({error}).") from None
    return listener
