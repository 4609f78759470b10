"""The management API: what az, the SDKs and portals call.

May import core, engine, control and its HTTP library; start with app.py.
"""
