"""A call as one compiled pass: from text, or bound instances, to outputs over a workspace that is kept."""
