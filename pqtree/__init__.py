"""PQ-trees and the memory-layout problem; knows nothing of neural networks."""
