{{/* The name of everything in the release: its own, and "smg" if that does not say so. */}}
{{- define "smg.name" -}}
{{- if contains "smg" .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-smg" (.Release.Name | trunc 48 | trimSuffix "-") }}
{{- end -}}
{{- end }}

{{- define "smg.selectorLabels" -}}
app.kubernetes.io/name: smg
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "smg.labels" -}}
{{ include "smg.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "smg.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "smg.name" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end }}

{{/* What the pods of engines are selected by, as flags of smg in a JSON list. */}}
{{- define "smg.selectorFlags" -}}
{{- if not .Values.discovery.selector -}}
{{- fail "discovery.selector is empty: say which labels the pods of your engines have, such as --set discovery.selector.app=engine" -}}
{{- end -}}
{{- $flags := list -}}
{{- range $key, $value := .Values.discovery.selector -}}
{{- $flags = append $flags (printf "--selector=%s=%s" $key $value) -}}
{{- end -}}
{{ $flags | toJson }}
{{- end }}

{{/* The namespaces that are watched, as a JSON list; none if all are. */}}
{{- define "smg.namespaces" -}}
{{- if .Values.discovery.clusterWide -}}
{{- if .Values.discovery.namespaces -}}
{{- fail "discovery.clusterWide watches all namespaces: set it, or name some in discovery.namespaces, but not both" -}}
{{- end -}}
[]
{{- else -}}
{{ .Values.discovery.namespaces | default (list .Release.Namespace) | toJson }}
{{- end -}}
{{- end }}

{{/* What smg and smg doctor are told of discovery, as flags in a JSON list. */}}
{{- define "smg.discoveryFlags" -}}
{{- $flags := include "smg.selectorFlags" . | fromJsonArray -}}
{{- range include "smg.namespaces" . | fromJsonArray -}}
{{- $flags = append $flags (printf "--service-discovery-namespace=%s" .) -}}
{{- end -}}
{{- $flags = append $flags (printf "--service-discovery-port=%v" .Values.discovery.port) -}}
{{- with .Values.discovery.workerPortsAnnotation -}}
{{- $flags = append $flags (printf "--worker-ports-annotation=%s" .) -}}
{{- end -}}
{{- with .Values.discovery.modelIdFrom -}}
{{- $flags = append $flags (printf "--model-id-from=%s" .) -}}
{{- end -}}
{{ $flags | toJson }}
{{- end }}

{{/* What the Role and the ClusterRole allow: to read pods, and nothing else. */}}
{{- define "smg.rules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
{{- end }}

{{- define "smg.subjects" -}}
- kind: ServiceAccount
  name: {{ include "smg.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
