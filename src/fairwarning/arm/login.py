"""How clients find their way in: what there is at this address, and where tokens come from.

The authority is announced in the style of ADFS: clients then take our word for it, where they would ask Azure
itself about any other.
"""

import base64
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from fairwarning.arm.call import ArmRequest, ArmResponse
from fairwarning.arm.context import TENANT, ArmContext
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.tokens import ACCESS, DEVICE, IDENTITY, LIFE, REFRESH, REFRESH_LIFE, Tokens
from fairwarning.core.document.render import Json, compact_json
from fairwarning.throttle import Throttle

NAME = "fairwarning"
#: Nothing answers under these names; clients only want to know some.
_NOWHERE = "fairwarning.test"
_SUFFIXES: Mapping[str, Json] = {
    "storage": f"core.{_NOWHERE}",
    "keyVaultDns": f"vault.{_NOWHERE}",
    "sqlServerHostname": f"database.{_NOWHERE}",
    "acrLoginServer": f"acr.{_NOWHERE}",
    "azureDataLakeStoreFileSystem": f"dls.{_NOWHERE}",
    "azureDataLakeAnalyticsCatalogAndJob": f"dla.{_NOWHERE}",
}

Answer = Callable[[Tokens, ArmRequest], ArmResponse]


async def endpoints(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Say what there is at this address, in the shape of the version asked for."""
    shape = _SHAPES.get(call.version, _cloud)
    return ArmResponse(body=shape(call.base))


def _cloud(base: str) -> Json:
    elsewhere = ("graph", "graphAudience", "microsoftGraphResourceId", "gallery")
    ours = ("media", "batch", "sqlManagement", "activeDirectoryDataLake", "logAnalyticsResourceId")
    return {
        "name": NAME,
        "portal": f"{base}/portal",
        "resourceManager": f"{base}/",
        "vmImageAliasDoc": f"{base}/aliases.json",
        "authentication": {
            "loginEndpoint": f"{base}/adfs",
            "audiences": [f"{base}/", base],
            "tenant": "common",
            "identityProvider": "ADFS",
        },
        "suffixes": {**_SUFFIXES},
        **{name: f"{base}/{name}/" for name in elsewhere},
        **dict.fromkeys(ours, base),
    }


def _clouds(base: str) -> Json:
    return [_cloud(base)]


def _stack(base: str) -> Json:
    return {
        "galleryEndpoint": f"{base}/",
        "graphEndpoint": f"{base}/",
        "portalEndpoint": f"{base}/",
        "authentication": {"loginEndpoint": f"{base}/adfs", "audiences": [f"{base}/"]},
    }


_SHAPES: Mapping[str, Callable[[str], Json]] = {
    "2015-01-01": _stack,
    "2018-05-01": _stack,
    "2019-05-01": _clouds,
    "2019-10-01": _clouds,
}


async def configuration(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Say where an authority gives its tokens; of ADFS at the old place, of any other at the new."""
    authority = f"{call.base}/{call.names['tenant']}"
    oauth = f"{authority}/oauth2" if call.names["tenant"].lower() == "adfs" else f"{authority}/oauth2/v2.0"
    return ArmResponse(
        body={
            "issuer": authority,
            "authorization_endpoint": f"{oauth}/authorize",
            "token_endpoint": f"{oauth}/token",
            "device_authorization_endpoint": f"{oauth}/devicecode",
            "jwks_uri": f"{authority}/discovery/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["pairwise"],
            "id_token_signing_alg_values_supported": ["HS256"],
            "tenant_region_scope": None,
        }
    )


async def instance(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Say where the authority describes itself, to those who ask about it first."""
    where = f"{call.base}/{TENANT}/v2.0/.well-known/openid-configuration"
    return ArmResponse(body={"tenant_discovery_endpoint": where, "api-version": "1.1", "metadata": []})


async def keys(room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Give no keys: nobody but us can check what we signed."""
    return ArmResponse(body={"keys": []})


async def token(tokens: Tokens, throttle: Throttle, room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Give a token to who may have one; who shows the wrong secret waits for the answer."""
    grant = _GRANTS.get(_said(call, "grant_type"))
    if grant is None:
        return _refused(
            "unsupported_grant_type", f"grant type {_said(call, 'grant_type')!r} is not known here"
        )
    reply = grant(tokens, call)
    if reply.status >= 400:
        await throttle.wrong(call.caller)
    return reply


async def device_code(tokens: Tokens, room: ArmContext, call: ArmRequest) -> ArmResponse:
    """Give a code that is as good as confirmed: there is nobody to ask."""
    if tokens.secret is not None:
        return _refused(
            "unauthorized_client", "this server asks for its token; log in as a service principal"
        )
    return ArmResponse(
        body={
            "device_code": tokens.make(call.base, use=DEVICE),
            "user_code": "FAIR-WARN",
            "verification_uri": f"{call.base}/device",
            "expires_in": 900,
            "interval": 1,
            "message": "Nothing needs to be confirmed: you will be logged in within a second.",
        }
    )


def _client(tokens: Tokens, call: ArmRequest) -> ArmResponse:
    if not tokens.admits(_said(call, "client_secret")):
        return _refused("invalid_client", "the client secret is not the token of this server", 401)
    return ArmResponse(body=_access(tokens, call))


def _device(tokens: Tokens, call: ArmRequest) -> ArmResponse:
    # One client calls it by its old name.
    code = _said(call, "device_code") or _said(call, "code")
    if not tokens.holds(code, DEVICE):
        return _refused("invalid_grant", "the device code is not one of ours")
    return ArmResponse(body=_for_a_person(tokens, call))


def _refresh(tokens: Tokens, call: ArmRequest) -> ArmResponse:
    if not tokens.holds(_said(call, "refresh_token"), REFRESH):
        return _refused("invalid_grant", "the refresh token is not one of ours")
    return ArmResponse(body=_for_a_person(tokens, call))


_GRANTS: Mapping[str, Answer] = {
    "client_credentials": _client,
    "device_code": _device,
    "urn:ietf:params:oauth:grant-type:device_code": _device,
    "refresh_token": _refresh,
}


def _access(tokens: Tokens, call: ArmRequest) -> dict[str, Json]:
    life = int(LIFE.total_seconds())
    audience = _said(call, "resource") or _said(call, "scope").removesuffix("/.default") or call.base
    subject = _said(call, "client_id") or "dev"
    return {
        "token_type": "Bearer",
        "expires_in": life,
        "ext_expires_in": life,
        "access_token": tokens.make(audience, use=ACCESS, subject=subject),
    }


def _for_a_person(tokens: Tokens, call: ArmRequest) -> dict[str, Json]:
    who = base64.urlsafe_b64encode(compact_json({"uid": "dev", "utid": TENANT})).decode().rstrip("=")
    return {
        **_access(tokens, call),
        "scope": _said(call, "scope"),
        "client_info": who,
        "id_token": tokens.make(_said(call, "client_id"), use=IDENTITY),
        "refresh_token": tokens.make(call.base, use=REFRESH, life=REFRESH_LIFE),
    }


def _said(call: ArmRequest, name: str) -> str:
    said = call.fields().get(name)
    return said if isinstance(said, str) else ""


def _refused(error: str, description: str, status: int = 400) -> ArmResponse:
    return ArmResponse(status=status, body={"error": error, "error_description": description})


def routes(tokens: Tokens, throttle: Throttle) -> tuple[ArmRoute, ...]:
    """Return the routes that need no token, because they are the way to one."""
    give: Callable[[ArmContext, ArmRequest], Awaitable[ArmResponse]] = partial(token, tokens, throttle)
    code: Callable[[ArmContext, ArmRequest], Awaitable[ArmResponse]] = partial(device_code, tokens)
    return (
        ArmRoute("GET", "/metadata/endpoints", endpoints),
        ArmRoute("GET", "/{tenant}/.well-known/openid-configuration", configuration),
        ArmRoute("GET", "/{tenant}/v2.0/.well-known/openid-configuration", configuration),
        ArmRoute("GET", "/{tenant}/discovery/instance", instance),
        ArmRoute("GET", "/{tenant}/discovery/keys", keys),
        ArmRoute("POST", "/{tenant}/oauth2/token", give),
        ArmRoute("POST", "/{tenant}/oauth2/v2.0/token", give),
        ArmRoute("POST", "/{tenant}/oauth2/devicecode", code),
        ArmRoute("POST", "/{tenant}/oauth2/v2.0/devicecode", code),
    )
