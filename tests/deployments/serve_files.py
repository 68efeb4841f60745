"""Serve config files as Serve and this package read them."""

import warnings
from pathlib import Path

import yaml

from dsi_ray.serving.config import ServingConfig

with warnings.catch_warnings():
    # Ray Serve declares its settings in a way that pydantic will drop one day.
    warnings.simplefilter("ignore")
    from ray.serve.schema import DeploymentSchema, ServeApplicationSchema, ServeDeploySchema

    from dsi_ray.serving.app import APP_NAME as APP_NAME
    from dsi_ray.serving.app import HOST_NAME as HOST_NAME
    from dsi_ray.serving.app import INGRESS_NAME as INGRESS_NAME
    from dsi_ray.serving.app import build_app as build_app

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deployments"
FILES = sorted(file for file in FOLDER.glob("*.yaml") if file.name != "kustomization.yaml")


def serve_config(text: str) -> ServeDeploySchema:
    """A Serve config, checked by Serve's own schema."""
    return ServeDeploySchema.model_validate(yaml.safe_load(text))


def application(text: str) -> ServeApplicationSchema:
    """The one application of a Serve config."""
    (only,) = serve_config(text).applications
    return only


def serving_config(text: str) -> ServingConfig:
    """What the application's builder gets."""
    return ServingConfig.model_validate(application(text).args)


def deployments(text: str) -> dict[str, DeploymentSchema]:
    """What the config overrides, by the deployment's name."""
    return {deployment.name: deployment for deployment in application(text).deployments}
