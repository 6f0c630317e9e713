"""A comparison, or what collaborating brings, as one page of HTML that opens without a network."""
