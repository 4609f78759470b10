"""The resources of Microsoft.Compute that are scopes and machines of the core, as a table.

A ``ResourceType`` says how resources of a type are found, rendered, created, changed and deleted, and which
verbs they have. The handlers of all requests and their routes follow from it. Each PUT, PATCH, POST and
DELETE is one commit: its function reads the state that the request is decided on.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, NamedTuple, NoReturn, TypeVar

from fairwarning.arm import operations, resource_ids
from fairwarning.arm.compute import actions, members, preconditions, user_data, validation
from fairwarning.arm.compute.actions import Selection
from fairwarning.arm.context import ArmContext, Edit
from fairwarning.arm.documents import Document, get_path, merge, overlay
from fairwarning.arm.errors import AzureError, not_found
from fairwarning.arm.messages import ArmRequest, ArmResponse
from fairwarning.arm.resource_ids import GROUP_PATH, SUBSCRIPTION_PATH, paginate
from fairwarning.arm.routing import ArmRoute
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.identity import group_id
from fairwarning.core.document.render import Json
from fairwarning.core.model import Scope

#: The variable parts of a path.
Names = Mapping[str, str]
#: The scopes of a set: one, or one per zone.
Scopes = tuple[Scope, ...]
T = TypeVar("T")
#: A resource in a list: a key to sort by, and a function that finds the resource.
Listed = tuple[str, Callable[[], T]]


def _cannot(*arguments: object) -> NoReturn:
    raise NotImplementedError


class Likeness(NamedTuple):
    """Resources of the same ``kind`` have the same members, and their documents differ in ``own`` alone."""

    kind: Hashable
    own: Document


@dataclass(frozen=True, kw_only=True)
class ResourceType(Generic[T]):
    """A type of resource; ``T`` is what the core has for it: a machine, or the scopes of a set."""

    kind: str
    #: What the names in the path of a resource are called: of what it is a part of, and its own.
    names: tuple[str, ...] = ("name",)
    #: Returns a resource; None if there is none. Raises if the resource that it is a part of is missing.
    find: Callable[[ArmState, Names], T | None]
    #: Returns the resources of a list.
    each: Callable[[ArmState, ArmRequest], Iterable[Listed[T]]]
    render: Callable[[ArmState, T], Document]
    #: Creates a resource; without it, PUT changes existing resources only.
    create: Callable[[Edit, ArmRequest, Document], None] | None = None
    #: Changes a resource and returns the operation that this started, if any.
    change: Callable[[Edit, ArmRequest, T, Document], str | None] = _cannot
    #: Deletes a resource and returns the operation that lasts until it is gone, if it is not gone at once.
    delete: Callable[[Edit, ArmRequest, T], str | None] = _cannot
    #: Renders the instance view.
    view: Callable[[ArmState, T], Document] | None = None
    #: Returns the machines that a verb concerns.
    select: Callable[[ArmState, ArmRequest, str], Selection] = _cannot
    verbs: tuple[str, ...] = ()
    methods: tuple[str, ...] = ("GET", "PUT", "PATCH", "DELETE")
    lists_by_location: bool = False
    created_status: int = 201
    #: Returns how a resource differs from others that are alike; None if the resource is like no other.
    likeness: Callable[[ArmState, T], Likeness | None] = lambda state, resource: None
    #: Whether documents include the instance view if a request asks for it.
    expands: bool = False
    #: The path of the user data, which is only in a response that a request asks for it.
    user_data: tuple[str, ...] = ()
    #: Whether a client polls a PUT or PATCH until it is over (T-29).
    long_running: bool = False
    #: Whether resources have an etag, on which a PUT or PATCH can depend (T-25).
    has_etag: bool = False

    @property
    def path(self) -> str:
        """The path below ``Microsoft.Compute``; its last segment is the name of a resource."""
        parts = zip(self.kind.split("/"), self.names, strict=True)
        return "/".join(f"{kind}/{{{name}}}" for kind, name in parts)

    def id(self, names: Names) -> str:
        """Return the id of a resource."""
        return f"{group_id(names['group'])}/providers/Microsoft.Compute/{self.path.format(**names)}"

    def require(
        self, state: ArmState, names: Names, missing: Callable[[Names], AzureError] | None = None
    ) -> T:
        """Return a resource; ``missing`` makes the error if there is none, unless it is the usual one.

        Raises:
            AzureError: the resource or its group does not exist.
        """
        state.require_group(names["group"])
        resource = self.find(state, names)
        if resource is None:
            path = self.path.format(**names)
            raise not_found("Microsoft.Compute", path, names["group"]) if missing is None else missing(names)
        return resource

    def find_document(self, state: ArmState, request: ArmRequest) -> Document | None:
        """Return the document of the resource in a request; None if there is none."""
        resource = self.find(state, request.names)
        return None if resource is None else self.render(state, resource)

    def names_in(self, path: str) -> Names | None:
        """Return the names in the path of a resource of this type; None for any other path."""
        matched = ArmRoute("GET", f"{GROUP_PATH}/{self.path}", self.get_one).pattern.fullmatch(path)
        return None if matched is None else matched.groupdict()

    def require_document(self, state: ArmState, request: ArmRequest) -> Document:
        """Return the document of the resource in a request.

        Raises:
            AzureError: the resource or its group does not exist.
        """
        return self.render(state, self.require(state, request.names))

    def set_tags(self, request: ArmRequest, edit: Edit, tags: Document) -> None:
        """Replace the tags of the resource in a request."""
        self.change(edit, request, self.require(edit.state, request.names), {"tags": tags})

    def routes(self) -> tuple[ArmRoute, ...]:
        """Return the routes of all requests about resources of this type."""
        one, collection = f"{GROUP_PATH}/{self.path}", self.path.rpartition("/")[0]
        handlers = {"GET": self.get_one, "PUT": self.put, "PATCH": self.put, "DELETE": self.delete_one}
        routes = [ArmRoute("GET", f"{GROUP_PATH}/{collection}", self.list_all)]
        if "/" not in collection:
            routes.append(ArmRoute("GET", f"{SUBSCRIPTION_PATH}/{collection}", self.list_all))
        if self.lists_by_location:
            path = f"{SUBSCRIPTION_PATH}/locations/{{location}}/{collection}"
            routes.append(ArmRoute("GET", path, self.list_all))
        routes += [ArmRoute(method, one, handlers[method]) for method in self.methods]
        if self.view is not None:
            routes.append(self.route_below("instanceView", self.view))
        routes += [ArmRoute("POST", f"{one}/{verb}", partial(self.act, verb)) for verb in self.verbs]
        return tuple(routes)

    def route_below(self, name: str, read: Callable[[ArmState, T], Document]) -> ArmRoute:
        """Return the route of what is read below a resource."""

        async def respond(context: ArmContext, request: ArmRequest) -> ArmResponse:
            state = context.state()
            return ArmResponse(body=read(state, self.require(state, request.names)))

        return ArmRoute("GET", f"{GROUP_PATH}/{self.path}/{name}", respond)

    async def get_one(self, context: ArmContext, request: ArmRequest) -> ArmResponse:
        """Return a resource."""
        document = self._render(context.state(), request)
        if self.user_data and _wants(request, "userData"):
            document = _with_value(document, self.user_data, await user_data.read(context, document))
        return _with_etag(ArmResponse(body=document))

    async def list_all(self, context: ArmContext, request: ArmRequest) -> ArmResponse:
        """Return a page of the resources: of a group, of all groups, or of what they are parts of."""
        state, version = context.state(), request.version
        has_views = self.expands and _wants_view(request)
        # The document of one of the resources of a kind, and whether a response leaves members of it out.
        patterns: dict[Hashable, tuple[Document, bool]] = {}

        def rendered(find: Callable[[], T]) -> Document:
            resource = find()
            likeness = None if has_views else self.likeness(state, resource)
            if likeness is None:
                return self._shown(state, resource, request)
            if likeness.kind not in patterns:
                document = self.render(state, resource)
                hides = members.hide_newer_members(self.kind, document, version) is not document
                patterns[likeness.kind] = document, hides
            pattern, hides = patterns[likeness.kind]
            document = self._with_etag_member(merge(pattern, likeness.own), version)
            return members.hide_newer_members(self.kind, document, version) if hides else document

        return paginate(request, self.each(state, request), rendered)

    async def put(self, context: ArmContext, request: ArmRequest) -> ArmResponse:
        """Create or change a resource; a PATCH changes only what exists."""
        if request.method == "PATCH":
            self.require(context.state(), request.names)
        elif self.create is not None:
            context.state().require_active_group(request.names["group"])
        body = validation.read_body(self.kind, request)
        text = get_path(request.body, *self.user_data) if self.user_data else None
        key = await user_data.read_key(context) if text else b""

        def fill(edit: Edit) -> tuple[int, str | None]:
            request.check_deployment(edit.state)
            resource = self.find(edit.state, request.names)
            if self.has_etag and (request.if_match or request.if_none_match):
                preconditions.check(request, self.find_document(edit.state, request))
            if resource is None and self.create is not None and request.method == "PUT":
                edit.state.require_active_group(request.names["group"])
                self.create(edit, request, body)
                if self.user_data:
                    edit.put(user_data.documents(edit.state, key, self.id(request.names), str(text or "")))
                return self.created_status, self._over_at_once(edit, request)
            resource = self.require(edit.state, request.names)
            if text is not None:
                identifier = str(self.render(edit.state, resource)["id"])
                edit.put(user_data.documents(edit.state, key, identifier, str(text)))
            operation = self.change(edit, request, resource, body)
            return 200, operation or self._over_at_once(edit, request)

        status, operation = await context.change(request.principal, fill)
        response = ArmResponse(status=status, body=self._render(context.state(), request))
        if operation is not None:
            state = "Creating" if status == 201 else "Updating"
            response = operations.created_response(context, request, operation, response, state)
        return _with_etag(response)

    async def put_at_path(self, context: ArmContext, request: ArmRequest) -> ArmResponse:
        """Create or change the resource at the path of a request that no route has matched."""
        names = self.names_in(request.path)
        if names is None:
            raise AzureError(404, "NotFound", f"No resource answers at {request.path}.")
        return await self.put(context, replace(request, names=names))

    async def delete_one(self, context: ArmContext, request: ArmRequest) -> ArmResponse:
        """Delete a resource; 204 if there is none."""

        def fill(edit: Edit) -> ArmResponse:
            edit.state.require_group(request.names["group"])
            resource = self.find(edit.state, request.names)
            if resource is None:
                return ArmResponse(status=204)
            operation = self.delete(edit, request, resource)
            if operation is None:
                return ArmResponse(status=200)
            location = operations.location_of(edit.state, self.id(request.names))
            return operations.accepted_response(context, request, operation, location)

        return await context.change(request.principal, fill)

    async def act(self, verb: str, context: ArmContext, request: ArmRequest) -> ArmResponse:
        """Carry out a verb."""

        def fill(edit: Edit) -> ArmResponse:
            resource, selection = self.id(request.names), self.select(edit.state, request, verb)
            operation = actions.act(edit, request, verb, resource, selection)
            if operation is None:
                return ArmResponse(status=204)
            location = operations.location_of(edit.state, resource)
            return operations.accepted_response(context, request, operation, location)

        return await context.change(request.principal, fill)

    def _over_at_once(self, edit: Edit, request: ArmRequest) -> str | None:
        """Return the operation of a change that is over; a deployment does not poll its own changes."""
        return operations.over_at_once(edit) if self.long_running and not request.deployment else None

    def _render(self, state: ArmState, request: ArmRequest) -> Document:
        return self._shown(state, self.require(state, request.names), request)

    def _shown(self, state: ArmState, resource: T, request: ArmRequest) -> Document:
        document = self._with_etag_member(self.render(state, resource), request.version)
        if self.expands and self.view is not None and _wants_view(request):
            document = overlay(document, {"properties": {"instanceView": self.view(state, resource)}})
        return members.hide_newer_members(self.kind, document, request.version)

    def _with_etag_member(self, document: Document, version: str) -> Document:
        has_etag = self.has_etag and version >= preconditions.SINCE
        return {**document, "etag": preconditions.etag_of(document)} if has_etag else document


def find_set(kind: str, state: ArmState, names: Names) -> Scopes | None:
    """Return the scopes of a set; None if there is no such set."""
    return resource_ids.find_scopes(state, kind, names) or None


def each_set(kind: str, state: ArmState, request: ArmRequest) -> Iterable[Listed[Scopes]]:
    """Return the sets of a type, of a group or of all groups."""
    sets: dict[str, Scopes] = {}
    for scope in resource_ids.select_scopes(state, request, kind):
        key = resource_ids.set_id(state, scope).lower()
        sets[key] = (*sets.get(key, ()), scope)
    return ((key, partial(sets.__getitem__, key)) for key in sets)


def _wants(request: ArmRequest, part: str) -> bool:
    return part.lower() in request.query.get("$expand", "").lower()


def _wants_view(request: ArmRequest) -> bool:
    return _wants(request, "instanceView") or request.query.get("statusOnly") == "true"


def _with_value(document: Document, path: tuple[str, ...], value: str) -> Document:
    more: Json = value
    for name in reversed(path):
        more = {name: more}
    return overlay(document, more) if value and isinstance(more, dict) else document


def _with_etag(response: ArmResponse) -> ArmResponse:
    etag = get_path(response.body, "etag")
    return response if etag is None else response._replace(headers=(*response.headers, ("ETag", str(etag))))
