"""Where a master that listens on some address is reached."""


def is_any(host: str) -> bool:
    """Whether it stands for all addresses of a machine."""
    return host in {"", "0.0.0.0", "::"}  # noqa: S104 (compared, not bound)


def url_of(host: str, port: int, *, tls: bool, anywhere: str) -> str:
    """The URL of what listens there; `anywhere` is the machine, if it listens on all addresses."""
    name = anywhere if is_any(host) else host
    return f"{'https' if tls else 'http'}://{f'[{name}]' if ':' in name else name}:{port}"


def complete_url(url: str) -> str:
    """`host:port` is short for `http://host:port`; several masters are parted by commas."""
    return ",".join(
        (each if "://" in each else f"http://{each}").rstrip("/")
        for each in map(str.strip, url.split(","))
        if each
    )
