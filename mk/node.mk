# The real node of e2e: Kubernetes' programs, Multus, and the tests that run on it.

NODE_TOOLS := kubelet kube-proxy kube-scheduler multus pause
