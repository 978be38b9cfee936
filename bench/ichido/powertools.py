"""AWS Lambda Powertools for Python, idempotency: one call after the other, measured from inside."""

import json
import os
import time

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)

calls = int(os.environ["CALLS"])


class Context:
    """Without one it warns about the remaining time on every call."""

    @staticmethod
    def get_remaining_time_in_millis():
        return 60_000


config = IdempotencyConfig()
config.register_lambda_context(Context())


@idempotent_function(
    data_keyword_argument="event",
    persistence_store=DynamoDBPersistenceLayer(table_name=os.environ["TABLE"]),
    config=config,
)
def work(event):
    return {"ok": True}


for n in range(200):
    work(event={"id": f"event-{calls + n}"})


def round_of_calls():
    started, cpu = time.perf_counter(), time.process_time()
    for n in range(calls):
        work(event={"id": f"event-{n}"})
    return calls / (time.perf_counter() - started), (time.process_time() - cpu) * 1e6 / calls


fresh, duplicate = round_of_calls(), round_of_calls()
print(
    json.dumps(
        {
            "fresh_per_second": fresh[0],
            "fresh_cpu_us": fresh[1],
            "duplicate_per_second": duplicate[0],
            "duplicate_cpu_us": duplicate[1],
        }
    )
)
