"""Home Assistant: its recorder, which writes every change of a state to `home-assistant_v2.db`.

The recorder is Home Assistant's own, set up by its core as at every start; only the states come from here instead of from sensors.
It is set to commit once a second, as its documentation names it, here after each round of changes.
"""

ABOUT = "Home Assistant: the recorder, 60 sensors that change"
REQUIREMENTS = ["homeassistant==2025.4.4", "sqlalchemy==2.0.39", "fnv-hash-fast==1.4.0", "psutil-home-assistant==0.0.1"]
PYTHON = ["python3.13"]
DATABASE = "config/home-assistant_v2.db"
COUNT = "SELECT count(*) FROM states"

SCRIPT = '''
import asyncio, sys

from homeassistant.core import HomeAssistant
from homeassistant.helpers import recorder as helper
from homeassistant import config_entries, loader
from homeassistant.components import recorder
from homeassistant.setup import async_setup_component


async def main(folder, rounds):
    hass = HomeAssistant(folder)
    hass.config.skip_pip = True
    hass.config_entries = config_entries.ConfigEntries(hass, {})
    loader.async_setup(hass)
    from homeassistant.helpers import area_registry, category_registry, device_registry, entity, entity_registry
    from homeassistant.helpers import floor_registry, issue_registry, label_registry, translation
    entity.async_setup(hass)
    translation.async_setup(hass)
    for registry in (area_registry, category_registry, device_registry, entity_registry, floor_registry, issue_registry, label_registry):
        await registry.async_load(hass)
    helper.async_initialize_recorder(hass)
    assert await async_setup_component(hass, "recorder", {"recorder": {"commit_interval": 0}})
    instance = recorder.get_instance(hass)
    await hass.async_start()
    for number in range(rounds):
        for sensor in range(60):
            hass.states.async_set(f"sensor.power_{sensor}", f"{(number * 37 + sensor) % 1000 / 10}", {"unit_of_measurement": "W"})
        await hass.async_block_till_done()
        await instance.async_block_till_done()
    await hass.async_stop(force=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
'''
ROUNDS = 30


def prepare(app):
    (app.folder / "config").mkdir()
    (app.folder / "recorder.py").write_text(SCRIPT)
    # The schema, and the state that every run begins with.
    app.run([app.python, "recorder.py", app.folder / "config", 1])


def command(app):
    return [app.python, app.folder / "recorder.py", app.folder / "config", ROUNDS]
