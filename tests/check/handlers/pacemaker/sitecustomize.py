"""Gives the agent the host name of its machine: a play's machines share one host."""

import os
import socket

socket.gethostname = lambda: os.environ["FAIRWARNING_MACHINE"]
