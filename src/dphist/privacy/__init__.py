"""Pure mathematics: privacy profiles delta(epsilon), their calibration and composition. Imports nothing of ours."""
