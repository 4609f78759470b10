"""Gives the agent the host name of its machine: all machines of a scenario share one host."""

import os
import socket

socket.gethostname = lambda: os.environ["FAIRWARNING_MACHINE"]
