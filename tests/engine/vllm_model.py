"""Owns making a model that vLLM loads out of the demo model's GGUF. Runs in vLLM's environment, as a script.

``VLLM_ENV/bin/python tests/engine/vllm_model.py MODEL.gguf FOLDER``. The object that transformers makes of a GGUF
cannot be saved, so its weights go into a fresh one.
"""

import shutil
import sys
from pathlib import Path


def convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, LlamaForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(str(gguf.parent), gguf_file=gguf.name, dtype=torch.float32)
    config = loaded.config
    for name in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(config, name):
            delattr(config, name)
    model = LlamaForCausalLM(config)
    model.load_state_dict(loaded.state_dict())
    fresh = folder.with_name(folder.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(str(fresh))
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(gguf.with_name(name), fresh)
    fresh.rename(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
