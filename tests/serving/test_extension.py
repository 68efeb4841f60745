"""``dsi`` in a request, over the server's configuration."""

import pytest
from pydantic import ValidationError

from dsi_ray.config import EngineConfig, Verification
from dsi_ray.serving.openai.extension import DsiOptions


def test_verification_is_the_servers_unless_said() -> None:
    server = EngineConfig(verification=Verification.REJECTION)
    assert DsiOptions().decoding(server).verification is Verification.REJECTION
    assert not DsiOptions(verification="exact").decoding(server).rejection
    assert DsiOptions(verification="rejection").decoding(EngineConfig()).rejection


def test_without_drafts_there_is_nothing_to_reject() -> None:
    options = DsiOptions(algorithm="non-si", verification="rejection")
    assert not options.decoding(EngineConfig()).rejection


def test_no_other_rule_is_known() -> None:
    with pytest.raises(ValidationError):
        DsiOptions.model_validate({"verification": "typical"})
