"""Answers of the real engine while others beside them are aborted: byte for byte what each is alone.

Where a batch of another size rounds otherwise, a near tie may flip, and only that: the engine itself is asked.
"""

import threading

import httpx
import pytest

from tests.e2e.reading import chat

QUESTIONS = (
    "Name three colours and say one thing about each.",
    "What is a river?",
    "Tell me about the moon.",
    "How do I cook rice?",
)
ROUNDS = 4
#: In natural logarithms; different kernels for batches of different sizes differ by far less than this.
TIE = 0.2


def ask(site, key, question, until=lambda stream: False):
    with site.api(key) as client:
        return chat(client, question, model="smollm2", temperature=0, max_tokens=48, until=until)


def engine(site, path, **body):
    return httpx.post(f"{site.engine_url}{path}", json=body, timeout=30).json()


def tokens(site, text):
    return engine(site, "/tokenize", content=text, parse_special=True)["tokens"]


def is_same_but_for_a_tie(site, question, expected, got):
    """Whether both texts are one, or part where the engine finds both next tokens about as likely."""
    if got == expected:
        return True
    prompt = engine(site, "/apply-template", messages=[{"role": "user", "content": question}])["prompt"]
    pairs = list(zip(tokens(site, expected), tokens(site, got), strict=False))
    parting = next((nth for nth, (one, other) in enumerate(pairs) if one != other), None)
    if parting is None:
        return False
    before = tokens(site, prompt) + [one for one, _ in pairs[:parting]]
    asked = engine(site, "/completion", prompt=before, n_predict=1, n_probs=10, temperature=0)
    likely = {top["id"]: top["logprob"] for top in asked["completion_probabilities"][0]["top_logprobs"]}
    one, other = (likely.get(token_id) for token_id in pairs[parting])
    return one is not None and other is not None and abs(one - other) < TIE


@pytest.fixture(scope="module")
def alone(site, key):
    return {question: ask(site, key, question).text for question in QUESTIONS}


def test_every_second_of_four_is_aborted_and_the_others_say_what_they_say_alone(site, key, alone):
    for nth in range(ROUNDS):
        kept = {}

        def keep(question, kept=kept):
            kept[question] = ask(site, key, question)

        def cut(events):
            ask(site, key, f"Write a very long story about number {events}.", lambda s: len(s.seqs) >= events)

        questions = [QUESTIONS[nth], QUESTIONS[(nth + 1) % len(QUESTIONS)]]
        work = [(keep, questions[0]), (cut, 3 + nth), (keep, questions[1]), (cut, 8 + 2 * nth)]
        threads = [threading.Thread(target=function, args=(argument,)) for function, argument in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for question in questions:
            assert kept[question].is_done
            assert is_same_but_for_a_tie(site, question, alone[question], kept[question].text)


def test_another_text_is_not_taken_for_a_tie(site, alone):
    text = alone[QUESTIONS[1]]
    words = text.split(" ")
    for wrong in (text[:-8], " ".join([*words[:4], "bicycle", *words[5:]]), alone[QUESTIONS[2]]):
        assert not is_same_but_for_a_tie(site, QUESTIONS[1], text, wrong)
