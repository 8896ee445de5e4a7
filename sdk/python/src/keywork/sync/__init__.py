"""The same client and worker for programs without an event loop.

Everything else (`Submit`, `Retry`, errors, events, …) is in `keywork` and used alike.
"""

from keywork.handlers import SyncInterceptor as Interceptor
from keywork.handlers import SyncNext as Next
from keywork.sync.client import Client, SubmitInterceptor, SubmitNext
from keywork.sync.worker import Worker

__all__ = ["Client", "Interceptor", "Next", "SubmitInterceptor", "SubmitNext", "Worker"]
