{{- /* Names, labels and what every pod has. A component is a role or a pool with dashes in place of underscores. */ -}}

{{- define "towpath.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "towpath.selector" -}}
app.kubernetes.io/name: towpath
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "towpath.labels" -}}
{{ include "towpath.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: towpath
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "towpath.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "towpath.natsUrl" -}}
{{- $name := include "towpath.name" . -}}
{{- $scheme := .Values.nats.tlsSecret | empty | ternary "nats" "tls" -}}
{{- if not .Values.broker.enabled -}}
{{- required "nats.url: name your broker, or leave broker.enabled" .Values.nats.url -}}
{{- else -}}
{{- $nodes := list -}}
{{- range $node := until (int .Values.broker.replicas) -}}
{{- $nodes = append $nodes (printf "%s://%s-nats-%d.%s-nats:4222" $scheme $name $node $name) -}}
{{- end -}}
{{- join "," $nodes -}}
{{- end -}}
{{- end -}}

{{- define "towpath.natsEnv" -}}
- {name: TOWPATH_NATS_URL, value: {{ include "towpath.natsUrl" .root | quote }}}
- {name: TOWPATH_NATS_USER, value: {{ .user | quote }}}
{{- if .root.Values.broker.enabled }}
- {name: TOWPATH_STREAM_REPLICAS, value: {{ .root.Values.broker.replicas | toString | quote }}}
{{- end }}
{{- if .root.Values.nats.tlsSecret }}
- {name: TOWPATH_NATS_TLS_CA, value: /etc/towpath/nats/ca.crt}
{{- end }}
{{- end -}}

{{- define "towpath.natsMount" -}}
{{- if .Values.nats.tlsSecret }}
- {name: nats-ca, mountPath: /etc/towpath/nats, readOnly: true}
{{- end }}
{{- end -}}

{{- define "towpath.natsVolume" -}}
{{- if .Values.nats.tlsSecret }}
- name: nats-ca # never the key beside it
  secret: {secretName: {{ .Values.nats.tlsSecret }}, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- end -}}

{{- define "towpath.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.scheduling.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.scheduling.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.scheduling.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- define "towpath.confined" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "towpath.spread" -}}
topologySpreadConstraints:
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "towpath.selector" $ | nindent 8 }}
{{- end }}
{{- end -}}

{{- define "towpath.probes" -}}
startupProbe: # a start waits for Postgres and the broker as long as it takes
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 4
  failureThreshold: 120
livenessProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 10
  timeoutSeconds: 4
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 4
  failureThreshold: 2
{{- end -}}

{{- define "towpath.budget" -}}
{{- if gt (int .replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  labels: {{ include "towpath.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{ include "towpath.selector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{- define "towpath.account" -}}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  labels: {{ include "towpath.labels" . | nindent 4 }}
automountServiceAccountToken: false
{{- end -}}
