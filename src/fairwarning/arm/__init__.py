"""What az, the SDKs and portals call: the management face.

May import core, engine and its HTTP library; start with app.py.
"""
