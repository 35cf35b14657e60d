"""The engines: one class a wire, all behind engine.base.Engine. Knows no response row and no reader."""
