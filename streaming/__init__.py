"""The one Django app: responses, their logs, the engines behind them and the people in front."""
