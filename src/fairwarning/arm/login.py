"""Logging in: the endpoints of this cloud, and the authority that issues tokens.

The authority is announced as ADFS. Clients accept an ADFS authority as it is; about any other they would ask
Azure first, outside this machine.
"""

import base64
from collections.abc import Callable, Mapping
from functools import partial

from fairwarning.arm import catalog
from fairwarning.arm.catalog.routes import answer
from fairwarning.arm.context import TENANT, ArmContext
from fairwarning.arm.messages import ArmRequest, ArmResponse, Handler
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.tokens import (
    ACCESS,
    DEVICE,
    IDENTITY,
    LIFE,
    REFRESH,
    REFRESH_LIFE,
    Tokens,
    version_1_answer,
)
from fairwarning.core.document.render import Json, compact_json
from fairwarning.throttle import Throttle

Grant = Callable[[Tokens, ArmRequest], ArmResponse]

#: The api-versions whose answer is a list of clouds, and those that know only the endpoints of Azure Stack.
_LISTS = ("2019-05-01", "2019-10-01")
_STACK = ("2015-01-01", "2018-05-01")


async def get_endpoints(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the endpoints of this cloud, in the shape of the request's api-version."""
    cloud, stack = catalog.read("cloud", base=request.base)
    if request.version in _STACK:
        return ArmResponse(body=stack)
    return ArmResponse(body=[cloud] if request.version in _LISTS else cloud)


async def get_configuration(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return the endpoints of an authority: version 1 for ADFS, version 2.0 for all others."""
    authority = f"{request.base}/{request.names['tenant']}"
    oauth = f"{authority}/oauth2" if _is_adfs(request) else f"{authority}/oauth2/v2.0"
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


async def get_instance_discovery(context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Return where the authority's configuration is, for clients that ask about the authority first."""
    url = f"{request.base}/{TENANT}/v2.0/.well-known/openid-configuration"
    return ArmResponse(body={"tenant_discovery_endpoint": url, "api-version": "1.1", "metadata": []})


async def issue_token(
    tokens: Tokens, throttle: Throttle, context: ArmContext, request: ArmRequest
) -> ArmResponse:
    """Issue a token; the throttle delays the response to a wrong secret."""
    grant_type = _form_field(request, "grant_type")
    grant = _GRANTS.get(grant_type)
    if grant is None:
        return _oauth_error("unsupported_grant_type", f"grant type {grant_type!r} is not supported")
    response = grant(tokens, request)
    if response.status >= 400:
        await throttle.wrong_token(request.caller)
    return response


async def issue_device_code(tokens: Tokens, context: ArmContext, request: ArmRequest) -> ArmResponse:
    """Issue a device code that is already confirmed: no person has to enter it."""
    if tokens.secret is not None:
        return _oauth_error(
            "unauthorized_client", "this server requires its token; log in as a service principal"
        )
    return ArmResponse(
        body={
            "device_code": tokens.make(request.base, use=DEVICE),
            "user_code": "FAIR-WARN",
            "verification_uri": f"{request.base}/device",
            "expires_in": 900,
            "interval": 1,
            "message": "Nothing needs to be confirmed: you will be logged in within a second.",
        }
    )


def _client(tokens: Tokens, request: ArmRequest) -> ArmResponse:
    if not tokens.accepts_secret(_form_field(request, "client_secret")):
        return _oauth_error("invalid_client", "the client secret is not the token of this server", 401)
    return ArmResponse(body=_access(tokens, request))


def _device(tokens: Tokens, request: ArmRequest) -> ArmResponse:
    # The older name of the field, which one client still sends.
    code = _form_field(request, "device_code") or _form_field(request, "code")
    return _exchange(tokens, request, code, DEVICE, "device code")


def _refresh(tokens: Tokens, request: ArmRequest) -> ArmResponse:
    return _exchange(tokens, request, _form_field(request, "refresh_token"), REFRESH, "refresh token")


_GRANTS: Mapping[str, Grant] = {
    "client_credentials": _client,
    "device_code": _device,
    "urn:ietf:params:oauth:grant-type:device_code": _device,
    "refresh_token": _refresh,
}


def _access(tokens: Tokens, request: ArmRequest) -> dict[str, Json]:
    life = int(LIFE.total_seconds())
    scope = _form_field(request, "scope").removesuffix("/.default")
    audience = _form_field(request, "resource") or scope or request.base
    subject = _form_field(request, "client_id") or "dev"
    if not _is_adfs(request) and "/v2.0/" not in request.path.lower():
        return version_1_answer(tokens, subject, audience)
    return {
        "token_type": "Bearer",
        "expires_in": life,
        "ext_expires_in": life,
        "access_token": tokens.make(audience, use=ACCESS, subject=subject),
    }


def _exchange(tokens: Tokens, request: ArmRequest, token: str, use: str, name: str) -> ArmResponse:
    """Return the tokens of a user for a token that was issued for this use."""
    if not tokens.is_valid(token, use):
        return _oauth_error("invalid_grant", f"the {name} was not issued by this server")
    client_info = base64.urlsafe_b64encode(compact_json({"uid": "dev", "utid": TENANT})).decode().rstrip("=")
    body = _access(tokens, request) | {
        "scope": _form_field(request, "scope"),
        "client_info": client_info,
        "id_token": tokens.make(_form_field(request, "client_id"), use=IDENTITY),
        "refresh_token": tokens.make(request.base, use=REFRESH, life=REFRESH_LIFE),
    }
    return ArmResponse(body=body)


def _is_adfs(request: ArmRequest) -> bool:
    return request.names["tenant"].lower() == "adfs"


def _form_field(request: ArmRequest, name: str) -> str:
    value = request.fields().get(name)
    return value if isinstance(value, str) else ""


def _oauth_error(error: str, description: str, status: int = 400) -> ArmResponse:
    return ArmResponse(status=status, body={"error": error, "error_description": description})


def routes(tokens: Tokens, throttle: Throttle) -> tuple[ArmRoute, ...]:
    """Return the routes of the login; they need no token."""
    token: Handler = partial(issue_token, tokens, throttle)
    device_code: Handler = partial(issue_device_code, tokens)
    return (
        ArmRoute("GET", "/metadata/endpoints", get_endpoints),
        ArmRoute("GET", "/{tenant}/.well-known/openid-configuration", get_configuration),
        ArmRoute("GET", "/{tenant}/v2.0/.well-known/openid-configuration", get_configuration),
        ArmRoute("GET", "/{tenant}/discovery/instance", get_instance_discovery),
        # There are no keys: tokens are signed with a secret, so only this server can check them.
        ArmRoute("GET", "/{tenant}/discovery/keys", answer({"keys": []})),
        ArmRoute("POST", "/{tenant}/oauth2/token", token),
        ArmRoute("POST", "/{tenant}/oauth2/v2.0/token", token),
        ArmRoute("POST", "/{tenant}/oauth2/devicecode", device_code),
        ArmRoute("POST", "/{tenant}/oauth2/v2.0/devicecode", device_code),
    )
