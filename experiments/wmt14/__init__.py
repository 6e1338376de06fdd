"""The paper's WMT'14 English-French experiment at full size: its data, its selection, its sizes. See README.md here."""
