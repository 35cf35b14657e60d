"""What of a request reaches an engine of each kind: an allow-list, names and values, and nothing beside it."""

import pytest

from streaming.engine.base import GenerateRequest, Sampling
from streaming.engine.registry import MAKE
from streaming.models import Engine
from tests.engine.conftest import collect

PATHS = {"openai": "/v1", "anthropic": "", "llamacpp": "", "vllm": ""}
REQUEST = GenerateRequest(
    request_id="resp_1-2",
    prompt_ids=(1, 2, 3),
    messages=[{"role": "user", "content": "hello", "secret": "not sent"}],
    sampling=Sampling(
        max_tokens=7, temperature=0.5, top_p=0.9, top_k=40, seed=5, presence_penalty=0.1, frequency_penalty=0.2,
        logit_bias={9: 1.5}, min_tokens=0, stop=("END", " "),
    ),
    cache_salt="user-17",
    priority=3,
)  # fmt: skip
SAMPLING = {"temperature": 0.5, "top_p": 0.9, "presence_penalty": 0.1, "frequency_penalty": 0.2, "seed": 5}
SENT = {
    "vllm": {
        "request_id": "resp_1-2", "token_ids": [1, 2, 3], "stream": True, "stream_options": {"include_usage": True},
        "priority": 3, "cache_salt": "user-17",
        "sampling_params": {
            **SAMPLING, "top_k": 40, "logit_bias": {"9": 1.5}, "max_tokens": 7, "min_tokens": 0, "detokenize": False,
        },
    },
    "llamacpp": {
        **SAMPLING, "top_k": 40, "prompt": [1, 2, 3], "n_predict": 7, "stream": True, "cache_prompt": True,
        "return_progress": True, "logit_bias": [[9, 1.5]],
    },
    "openai": {
        **SAMPLING, "model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True, "max_tokens": 7,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True}, "logit_bias": {"9": 1.5},
        "stop": ["END", " "], "cache_salt": "user-17",
    },
    "anthropic": {
        "model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True, "max_tokens": 7,
        "temperature": 0.5, "top_k": 40, "stop_sequences": ["END"],
    },
}  # fmt: skip


def test_every_kind_with_a_wire_is_looked_at():
    assert SENT.keys() == MAKE.keys() - {"scripted"}


@pytest.mark.parametrize("kind", SENT)
async def test_exactly_this_is_sent(fault, kind):
    options = {"cache_salt": True} if kind == "openai" else {}
    row = Engine(
        pk=1, name="e", kind=kind, model="m", url=fault.url + PATHS[kind], options=options,
        capabilities={"continuous_usage": True},
    )  # fmt: skip
    engine = MAKE[kind](row)
    await collect(engine, REQUEST)
    assert fault.bodies[-1] == SENT[kind]
    await engine.aclose()
