"""Writes gfs.i16, the fields of the weather example, from a GRIB file of the Global Forecast System.

    python3 -m venv venv && venv/bin/pip install eccodes==2.50.0 numpy
    venv/bin/python convert.py gfs.grb gfs.i16

SOURCE.md names the package that contains gfs.grb, and describes gfs.i16.
"""

import sys

import eccodes
import numpy

ROWS, COLUMNS = 73, 144
PLANES = [("pwat", "atmosphereSingleLayer", 0)] + [
    ("t", "isobaricInhPa", level)
    for level in (1000, 925, 850, 700, 600, 500, 400, 300, 250, 200, 150)]


def read_planes(path):
    """{(short name, type of level, level): values in tenths}, north to south, from 0 degrees east."""
    planes = {}
    with open(path, "rb") as file:
        while (message := eccodes.codes_grib_new_from_file(file)) is not None:
            def get(key, message=message):
                return eccodes.codes_get(message, key)
            key = (get("shortName"), get("typeOfLevel"), get("level"))
            if key in PLANES:
                assert key not in planes, f"{key} is there twice"
                assert (get("Nj"), get("Ni")) == (ROWS, COLUMNS), key
                assert get("latitudeOfFirstGridPointInDegrees") == 90, key
                assert get("longitudeOfFirstGridPointInDegrees") == 0, key
                assert get("iScansNegatively") == 0 and get("jScansPositively") == 0, key
                assert get("numberOfMissing") == 0, key
                # The file has one decimal: tenths lose nothing.
                assert get("decimalScaleFactor") == 1 and get("binaryScaleFactor") == 0, key
                values = eccodes.codes_get_values(message) * 10
                tenths = numpy.rint(values)
                assert numpy.abs(values - tenths).max() < 1e-6, key
                planes[key] = tenths.astype("<i2")
            eccodes.codes_release(message)
    return planes


def main(source, target):
    planes = read_planes(source)
    with open(target, "wb") as file:
        for key in PLANES:
            file.write(planes[key].tobytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
