"""Render an ablation as one self-contained HTML file."""
