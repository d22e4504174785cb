"""A group that moves to another broker is asked again; whatever else a broker says is told."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from tempura.region.kafka.sink import while_moving


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
    assert while_moving(broker, pause=0) == 7
    assert broker.asked == 4


def test_another_error_is_told_at_once() -> None:
    broker = Broker(KafkaError.NOT_COORDINATOR, KafkaError.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        while_moving(broker, pause=0)
    assert broker.asked == 2


def test_one_that_never_arrives_is_told_in_the_end() -> None:
    broker = Broker(*[KafkaError.NOT_COORDINATOR] * 3)
    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        while_moving(broker, lasts=0, pause=0)
    assert broker.asked == 1
