"""Ids name their kind, sort by time and cannot be guessed."""

import random
import re
import secrets

from crawlfleet.model.ids import BODY_LENGTH, RANDOM_LETTERS, make_id


def test_an_id_is_its_kind_and_a_body_of_fixed_length() -> None:
    made = make_id("task", 1_750_000_000.123, secrets.token_bytes)
    assert re.fullmatch(rf"task-[0-9a-hjkmnp-tv-z]{{{BODY_LENGTH}}}", made)


def test_ids_sort_by_the_time_of_their_making() -> None:
    instants = [0.0, 0.001, 1.0, 1_750_000_000.0, 1_750_000_000.001, 32_000_000_000.0]
    made = [make_id("task", each, secrets.token_bytes) for each in instants]
    assert made == sorted(made)


def test_all_random_bits_reach_the_id() -> None:
    low = make_id("task", 5.0, lambda size: bytes(size))
    high = make_id("task", 5.0, lambda size: b"\xff" * size)
    differing = [a != b for a, b in zip(low, high, strict=True)]
    assert sum(differing) == RANDOM_LETTERS


def test_ids_of_one_instant_differ() -> None:
    chance = random.Random(1)
    made = {make_id("task", 5.0, chance.randbytes) for _ in range(10_000)}
    assert len(made) == 10_000
