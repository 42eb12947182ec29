"""zigpy: the Zigbee library beneath Home Assistant's ZHA. Devices join, and tell what they measure; there is no radio."""

ABOUT = "zigpy: 20 devices of a Zigbee network tell 400 measurements"
REQUIREMENTS = ["zigpy==2.4.0"]
PYTHON = []
DATABASE = "zigbee.db"
COUNT = "SELECT coalesce(max(value), 0) FROM attributes_cache_v16"
MEASUREMENTS = 400

SCRIPT = '''
import asyncio, sys
from unittest.mock import AsyncMock

import zigpy.application, zigpy.config, zigpy.state, zigpy.types as t
from zigpy.profiles import zha
from zigpy.zcl import clusters
from zigpy.zdo import types as zdo

DEVICES = 20


class NoRadio(zigpy.application.ControllerApplication):
    """The radio's part of an application: nothing is sent, and nothing is received."""


for name in zigpy.application.ControllerApplication.__abstractmethods__:
    setattr(NoRadio, name, AsyncMock())
NoRadio.__abstractmethods__ = frozenset()


def device(app, number):
    """A sensor of temperature, as its interview leaves it."""
    address = t.EUI64.convert("00:11:22:33:44:55:66:%02x" % number)
    found = app.devices.get(address)
    if found is None:
        found = app.add_device(nwk=t.NWK(0x1000 + number), ieee=address)
        found.node_desc = zdo.NodeDescriptor(2, 64, 128, 4476, 82, 82, 11264, 82, 0)
        endpoint = found.add_endpoint(1)
        endpoint.status, endpoint.profile_id, endpoint.device_type = endpoint.status.ZDO_INIT, zha.PROFILE_ID, zha.DeviceType.TEMPERATURE_SENSOR
        for cluster in (clusters.general.Basic, clusters.general.PowerConfiguration, clusters.measurement.TemperatureMeasurement):
            endpoint.add_input_cluster(cluster.cluster_id)
        found.model, found.manufacturer, found.status = "sensor", "nobody", found.status.ENDPOINTS_INIT
        app.device_initialized(found)
    return found


async def main(count):
    app = NoRadio({zigpy.config.CONF_DATABASE: "zigbee.db", zigpy.config.CONF_DEVICE: {"path": "/dev/null"}})
    await app._load_db()
    for number in range(count):
        sensor = device(app, number % DEVICES)
        temperature = sensor.endpoints[1].in_clusters[clusters.measurement.TemperatureMeasurement.cluster_id]
        temperature.update_attribute(clusters.measurement.TemperatureMeasurement.AttributeDefs.measured_value.id, 2000 + number)
        # As between two frames of a radio.
        await asyncio.sleep(0.005)
    await app._dblistener.shutdown()


asyncio.run(main(int(sys.argv[1])))
'''


def prepare(app):
    (app.folder / "network.py").write_text(SCRIPT)
    app.run([app.python, "network.py", 0])


def command(app):
    return [app.python, "network.py", MEASUREMENTS]


def settle(app):
    """Measurements begin anew, and so does the greatest of them."""
    app.run(["sqlite3", app.database, "DELETE FROM attributes_cache_v16"])
