"""The paper's WMT'14 experiment: a workflow in Snakemake, and the steps of it that are no commands."""
