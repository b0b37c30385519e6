"""Which class an encoder's architecture is."""

from polytask.model.config import Architecture, EncoderConfig
from polytask.model.encoder import Encoder
from polytask.model.modernbert import ModernBert

AnyEncoder = Encoder | ModernBert

ENCODERS: dict[Architecture, type[Encoder] | type[ModernBert]] = {
    "bert": Encoder,
    "roberta": Encoder,
    "xlm-roberta": Encoder,
    "distilbert": Encoder,
    "electra": Encoder,
    "modernbert": ModernBert,
}


def new_encoder(config: EncoderConfig) -> AnyEncoder:
    """An encoder of these sizes with values that mean nothing yet."""
    return ENCODERS[config.architecture](config)
