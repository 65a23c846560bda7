"""What goes wrong with a request, and the status that HTTP has for it."""

from __future__ import annotations

import errno

from asr.errors import CepstraError

STOPPING = "the service is stopping; try again"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of the disk, of the user on it, of a file


class ServiceError(CepstraError):
    """A request that isn't answered as asked, with the status that HTTP has for it."""

    status = 500
    code = "server_error"

    def __init__(self, message: str, *, param: str | None = None, retry_after: int | None = None) -> None:
        """param: the field at fault. retry_after: seconds after which it may work."""
        super().__init__(message)
        self.param, self.retry_after = param, retry_after


class RequestError(ServiceError):
    """What was asked can't be done."""

    status = 400
    code = "invalid_request"


class NotFoundError(ServiceError):
    """There is no such thing."""

    status = 404
    code = "not_found"


class TooLargeError(ServiceError):
    """More than the service takes."""

    status = 413
    code = "too_large"


class BusyError(ServiceError):
    """As many wait as may."""

    status = 503
    code = "busy"


class LateError(ServiceError):
    """No answer within the time that the settings allow."""

    status = 504
    code = "timeout"


class ConflictError(ServiceError):
    """It can't be done as things stand."""

    status = 409
    code = "conflict"


class SlowError(ServiceError):
    """The request comes in too slowly, or not at all."""

    status = 408
    code = "request_timeout"


class KeyRefusedError(ServiceError):
    """No key that opens this."""

    status = 401
    code = "invalid_api_key"


class ForbiddenError(ServiceError):
    """A key that doesn't open this, or a page of somebody else's."""

    status = 403
    code = "forbidden"


class FullError(ServiceError):
    """The disk has no room."""

    status = 507
    code = "disk_full"
