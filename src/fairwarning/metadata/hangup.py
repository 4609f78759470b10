"""The answer that is none: the connection is cut, as if the machine behind it had gone."""

import struct

from fairwarning.metadata.http import Response

HANG_UP = Response(0)

#: Makes closing a connection drop what was not sent, and tell the other side so.
AT_ONCE = struct.pack("ii", 1, 0)
