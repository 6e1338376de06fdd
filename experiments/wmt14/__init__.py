"""The paper's WMT'14 experiment: a Snakemake workflow, and its steps that are not commands."""
