# Owns the commands that a person types; what they do stands in deploy/setup. Settings come from the environment.
.PHONY: run cluster test check bench bench-page drill drill-cluster drill-engines test-core bench-core mutants clean

# ARGS go on to pytest or the bench: make test ARGS="tests/setup -k gguf"
GO = @exec sh deploy/setup/start.sh $@ $(ARGS)

run:
	$(GO)
# The processes of compose.yaml on this machine: nginx, 3 web, worker, beat, PostgreSQL, Valkey, 2 engines.
cluster:
	$(GO)
test:
	$(GO)
check:
	$(GO)
bench:
	$(GO)
bench-page:
	$(GO)
test-core:
	$(GO)
bench-core:
	$(GO)
mutants:
	$(GO)

# It reads SEED, SEEDS and DEFAULTS: make drill SEED=7, make drill SEEDS=10, make drill DEFAULTS=1
drill:
	$(GO)
# It reads SEED, and SILENCE_S: how long an engine says nothing while nginx, with its own defaults, keeps the stream.
drill-cluster:
	$(GO)
# It reads SEED, and VLLM_ENV where vLLM is not in DATA_DIR/vllm.
drill-engines:
	$(GO)

# Everything that the other targets made, but for the data in DATA_DIR.
clean:
	rm -rf .venv frontend/node_modules frontend/dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
