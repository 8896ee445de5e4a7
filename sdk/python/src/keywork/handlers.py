"""What runs jobs, and what can be wrapped around it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from keywork import outcomes
from keywork.context import Context
from keywork.job import Job
from keywork.outcomes import Outcome

#: Runs a job. An ``async def`` runs on the loop of `Worker.run`, a plain function on a thread. Returning completes the
#: job, whatever is returned, but for an `Outcome`; an error means: try again after the job's backoff.
Handler: TypeAlias = Callable[[Context, Job], Awaitable[object]] | Callable[[Context, Job], object]
#: Goes on: the interceptors after this one, and then the handler.
Next: TypeAlias = Callable[[Context, Job], Awaitable[object]]
#: Wraps every handler call: does what is to be done around ``await next(context, job)``, and returns its result or
#: another.
Interceptor: TypeAlias = Callable[[Context, Job, Next], Awaitable[object]]
#: As `Next`, for plain functions.
SyncNext: TypeAlias = Callable[[Context, Job], object]
#: As `Interceptor`, for plain functions.
SyncInterceptor: TypeAlias = Callable[[Context, Job, SyncNext], object]


def is_async(handler: Callable[..., Any]) -> bool:
    """The handler is an ``async def``, or an object that is called like one."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    call = getattr(handler, "__call__", None)  # noqa: B004 - whether it can be called is not the question.
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def chain(interceptors: list[Any], handler: Any) -> Any:
    """The interceptors around the handler; the first one is the outermost."""
    for interceptor in reversed(interceptors):
        handler = functools.partial(_around, interceptor, handler)
    return handler


def _around(interceptor: Any, following: Any, context: Context, job: Job) -> Any:
    return interceptor(context, job, following)


def ended(result: object) -> Outcome:
    """What a plain handler's result means."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("the handler is a plain function and returned an awaitable: make it an async def")
    return outcomes.of_result(result)
