"""The tables. Rows only: who may write them and when is decided in store and above."""

from .access import ApiKey, Invitation, LoginToken, ServiceAccount
from .audit import AuditEntry
from .batch import Batch
from .conversation import Conversation, Message
from .engine import Engine
from .histogram import DailyHistogram
from .identity import Identity
from .ledger import EngineReading, LedgerCheck
from .price import ModelPrice
from .process import ReaderPresence, WebProcess
from .quota import Quota, QuotaSettlement, QuotaUse
from .response import Response, ResponseEvent
from .response_input import ResponseInput
from .share import Share
from .stored_file import FilePiece, StoredFile
from .usage import DailyUsage
from .webhook import WebhookDelivery, WebhookEndpoint

__all__ = [
    "ApiKey",
    "AuditEntry",
    "Batch",
    "Conversation",
    "DailyHistogram",
    "DailyUsage",
    "Engine",
    "EngineReading",
    "FilePiece",
    "Identity",
    "Invitation",
    "LedgerCheck",
    "LoginToken",
    "Message",
    "ModelPrice",
    "Quota",
    "QuotaSettlement",
    "QuotaUse",
    "ReaderPresence",
    "Response",
    "ResponseEvent",
    "ResponseInput",
    "ServiceAccount",
    "Share",
    "StoredFile",
    "WebProcess",
    "WebhookDelivery",
    "WebhookEndpoint",
]
