"""A message about a call for which Postgres refuses a value is set aside alone; the service and others go on."""

from pathlib import Path
from typing import Any

import asyncpg
from tests.conftest import DatabaseUrl
from tests.support.poison_marks import letters
from tests.support.tas.tas_running import running

REFUSE = """
CREATE FUNCTION public.refuse(refused boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF refused THEN RAISE EXCEPTION USING ERRCODE = '22P05', MESSAGE = 'no such character'; END IF;
  RETURN true;
END $$;
CREATE POLICY refuse ON tas.tool_call USING (public.refuse(execution_id = '{call}'));
ALTER TABLE tas.tool_call ENABLE ROW LEVEL SECURITY;
"""
"""Stands for a value for which a statement that reads is refused: those that are known are not asked for."""


async def test_requests_and_outcomes_with_a_refused_value_are_set_aside_alone(
    database: DatabaseUrl, nats_server: Any, tmp_path: Path
) -> None:
    async with running(nats_server, database, tmp_path) as tas:
        await tas.caller.set_up()
        asked = [tas.caller.request("orders.find") for _ in range(2)]
        bad, good = [await tas.caller.dispatched(await tas.caller.put(request)) for request in asked]
        owner = await asyncpg.connect(tas.dsn)
        await owner.execute(REFUSE.format(call=bad.execution_id))
        await owner.close()
        for request in asked:  # a call that is asked for again is read
            await tas.caller.again(request)
        await tas.caller.dispatched(asked[1], times=2)
        await tas.caller.quiet()
        for call in (bad, good):
            key = await tas.caller.report(call, status="ticket_expired")  # so that its row is read
            await tas.caller.confirmation(key)
        await tas.caller.quiet("TOOLOUT")
        found = await letters(tas.dsn)
        assert {(letter["stream"], letter["run_id"]) for letter in found} == {
            ("TOOLREQ", bad.run_id),
            ("TOOLOUT", bad.run_id),
        }
        assert all(letter["reason"].startswith("value_refused: ") for letter in found)
        assert [letter["effect_id"] for letter in found] == [bad.execution_id, None]
        assert tas.service.process.poll() is None
