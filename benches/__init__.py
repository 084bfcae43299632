"""What seamstream costs: see README.md in this folder."""
