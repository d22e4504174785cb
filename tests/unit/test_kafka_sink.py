"""A group or a partition that moves to another broker is asked about again; whatever else a broker says is told."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from tempura.errors import TempuraError
from tempura.region.kafka.clients import ANSWER, Address, Looks, while_moving


class Broker:
    """One that answers after some errors."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)
        self.asked = 0

    def __call__(self) -> int:
        self.asked += 1
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return 7


def test_a_group_that_moves_is_asked_again() -> None:
    moving = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    broker = Broker(*moving)
    assert while_moving(broker, ANSWER, pause=0) == 7
    assert broker.asked == 4


def test_another_error_is_told_at_once() -> None:
    broker = Broker(KafkaError.NOT_COORDINATOR, KafkaError.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        while_moving(broker, ANSWER, pause=0)
    assert broker.asked == 2


def test_one_that_never_arrives_is_told_in_the_end() -> None:
    broker = Broker(*[KafkaError.NOT_COORDINATOR] * 3)
    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        while_moving(broker, lasts=0, pause=0)
    assert broker.asked == 1


def test_a_topic_whose_partitions_are_nobodys_yet_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that was just made is."""
    broker = Broker(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
    monkeypatch.setattr(Looks, "_asked", lambda looks, admin: broker())
    found: object = Looks(Address("The sink", "127.0.0.1:1", "made")).look()
    assert found == 7
    assert broker.asked == 3


def test_what_else_is_said_of_a_topic_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.INVALID_REQUEST)
    monkeypatch.setattr(Looks, "_asked", lambda looks, admin: broker())
    with pytest.raises(TempuraError, match="INVALID_REQUEST") as told:
        Looks(Address("The sink", "127.0.0.1:1", "made")).look()
    assert told.value.code == "FEED_UNREADABLE"
    assert broker.asked == 2
