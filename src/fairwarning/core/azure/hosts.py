"""The host names of Azure's public cloud that management tools have built in."""

#: The management API, and the authorities that issue its tokens.
BUILT_IN_HOSTS = (
    "management.azure.com",
    "login.microsoftonline.com",
    "login.windows.net",
    "sts.windows.net",
)
