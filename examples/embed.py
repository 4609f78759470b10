"""A handler inside a program: waits for events, drains and approves. Usage: embed.py [BASE_URL]."""

import sys

from fairwarning import Client


def main() -> None:
    client = Client(sys.argv[1] if len(sys.argv) > 1 else None)
    for notice in client.watch():
        with notice.approving() as event:  # approves if this block ends well, never if it raises
            print(f"{event.kind}: draining, {notice.time_left} left", flush=True)
        notice.wait_until_gone()
        print(f"{event.kind}: over, back to work", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
