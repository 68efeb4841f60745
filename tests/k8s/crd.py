"""KubeRay's schema of a RayService, made as strict as the API server with field validation is."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

VARIABLE = "KUBERAY_CRD_DIR"
"""Names the folder with the schema; k8s/README.md says how to get one."""


def ray_service_validator() -> Draft7Validator:
    """A validator of RayService objects; skips the test where there is no schema."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        pytest.skip(f"{VARIABLE} is not set: no schema of the RayService CRD")
    with gzip.open(Path(folder) / "rayservices.v1.schema.json.gz") as file:
        return Draft7Validator(_strict(json.load(file)))


def _strict(schema: Any) -> Any:
    """Refuses unknown fields; asks for no field that the API server fills in."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items()}
    fields = schema.get("properties")
    if isinstance(fields, dict):
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            strict.setdefault("additionalProperties", False)
        filled_in = {name for name, field in fields.items() if "default" in field}
        strict["required"] = [n for n in schema.get("required", []) if n not in filled_in]
    return strict
