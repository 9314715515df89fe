"""What is wrong with a network as it is written, found without a platform: asked by the SDK and by the platform."""
